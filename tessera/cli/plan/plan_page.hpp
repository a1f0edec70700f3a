// A plan as one HTML page that needs nothing else: tables and pictures.
#pragma once

#include <string>

#include "tessera/planner/search/answer.hpp"

namespace tessera::cli {

std::string plan_page(const spec::Run& run, const planner::Plan& plan, const planner::Constants& constants);

}  // namespace tessera::cli
