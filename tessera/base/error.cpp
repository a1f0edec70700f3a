#include "tessera/base/error.hpp"

#include <filesystem>

namespace tessera {

int exit_code(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error)) return kExitUserError;
  if (dynamic_cast<const PeerLost*>(&error)) return kExitPeerLost;
  // A name that is too long, a folder without permission, a full disk.
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error)) return kExitUserError;
  return kExitBug;
}

void throw_bug(const char* file, int line, const char* condition, const std::string& message) {
  const std::string name(file);
  const auto slash = name.rfind("tessera/");
  throw Bug(cat("bug at ", slash == std::string::npos ? name : name.substr(slash), ":", line, ": ", message,
                message.empty() ? "" : " ", "(", condition, " is false)"));
}

}  // namespace tessera
