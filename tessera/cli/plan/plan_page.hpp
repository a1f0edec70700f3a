// A plan as one HTML page that needs nothing else: tables and pictures.
#pragma once

#include <string>

#include "tessera/planner/search/answer.hpp"

namespace tessera::cli {

// `name` is the run's, such as its file.
std::string plan_page(const spec::Run& run, const planner::Plan& plan, const planner::Constants& constants,
                      const std::string& name);

}  // namespace tessera::cli
