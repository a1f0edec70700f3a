#include "tessera/job/start/host.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

namespace tessera::job {

std::optional<Disk> disk_of(const std::string& path) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path, error);
  while (!error && !std::filesystem::exists(there) && there.has_relative_path()) there = there.parent_path();
  struct stat found {};
  struct statvfs space {};
  if (error || ::stat(there.c_str(), &found) != 0 || ::statvfs(there.c_str(), &space) != 0)
    return std::nullopt;
  if (space.f_blocks == 0) return std::nullopt;
  return Disk{found.st_dev, static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize)};
}

}  // namespace tessera::job
