// Computes the text of a chat template.
#pragma once

#include <string>
#include <vector>

#include "tessera/data/chat/template_tree.hpp"

namespace tessera::data {

// `variables` is an object. Throws UserError naming the template and the line, also of one that computes for
// too long or writes too much.
std::string rendered(const std::vector<Statement>& statements, const Json& variables,
                     const std::string& name);

}  // namespace tessera::data
