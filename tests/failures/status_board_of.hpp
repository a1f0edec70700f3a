// The board of a job that another process launched, for trials that look at what its ranks are doing.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <memory>

#include "tessera/launch/watch/status_board.hpp"

namespace tessera {

// Nothing if the process has none.
inline std::unique_ptr<launch::StatusBoard> status_board_of(pid_t launcher, int num_ranks) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(cat("/proc/", launcher, "/fd"), gone)) {
    if (std::filesystem::read_symlink(entry.path(), gone).string().find("tessera-board") == std::string::npos)
      continue;
    Descriptor descriptor(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (descriptor) return std::make_unique<launch::StatusBoard>(std::move(descriptor), num_ranks);
  }
  return nullptr;
}

}  // namespace tessera
