// Returns what a call that threw has to say, for code that goes on when something given to it is broken.
#pragma once

#include <functional>
#include <string>

namespace tessera {

// The message of the UserError that `act` throws; empty when it throws none.
std::string complaint_of(const std::function<void()>& act);

}  // namespace tessera
