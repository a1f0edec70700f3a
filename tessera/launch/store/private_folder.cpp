#include "tessera/launch/store/private_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tessera/base/error.hpp"
#include "tessera/base/files/descriptor.hpp"

namespace tessera::launch {

std::filesystem::path private_folder() {
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  if (error)
    throw UserError(cat("no folder for temporary files (", error.message(),
                        "). Set TMPDIR to a folder that you may write to."));
  const auto folder = parent / cat("tessera-", geteuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw UserError(cat("cannot make the folder ", folder.string(), ": ", system_reason(),
                        ". Set TMPDIR to a folder that you may write to."));
  struct stat status;
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 077) != 0)
    throw UserError(
        cat(folder.string(),
            " is not a folder that belongs to you alone (mode 700). Remove it, or set TMPDIR to another "
            "folder, for all ranks the same."));
  return folder;
}

}  // namespace tessera::launch
