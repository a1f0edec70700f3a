#include "tessera/base/complaint.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::string complaint_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace tessera
