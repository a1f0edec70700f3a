// The message for a key that the schema does not have, with the key that was probably meant.
#pragma once

#include <string>

namespace tessera::spec {

std::string unknown_key(const std::string& section, const std::string& name);

}  // namespace tessera::spec
