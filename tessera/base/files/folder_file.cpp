#include "tessera/base/files/folder_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

// A pipe without a writer would be waited for before it can be seen to be one.
constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

int regular(int descriptor, const std::string& path) {
  struct stat facts {};
  const int error = descriptor < 0 ? errno : ::fstat(descriptor, &facts) != 0 ? errno : 0;
  if (error == 0 && S_ISREG(facts.st_mode)) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  throw UserError(cat("cannot read file '", path, "': ",
                      error != 0               ? std::strerror(error)
                      : S_ISDIR(facts.st_mode) ? std::strerror(EISDIR)
                                               : "it is no regular file"));
}

}  // namespace

void expect_no_link(const std::string& path, Links links) {
  std::error_code error;
  if (links == Links::followed || !std::filesystem::is_symlink(path, error)) return;
  throw UserError(
      cat("'", path, "' is a link to '", std::filesystem::read_symlink(path, error).string(),
          "', and only what lies in the folder itself is opened. --follow-links allows it; or copy what it "
          "points to into the folder."));
}

int open_to_read(const std::string& path) { return regular(::open(path.c_str(), kReading), path); }

// Part by part, each without following a link, so that none can be put there between a look and the opening.
int open_to_read(const FolderFile& file) {
  if (file.links == Links::followed) return open_to_read(file.path());
  int folder = ::open(file.folder.empty() ? "." : file.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  std::string so_far = file.folder;
  for (std::size_t begin = 0; folder >= 0;) {
    const std::size_t end = std::min(file.name.find('/', begin), file.name.size());
    const std::string part = file.name.substr(begin, end - begin);
    const bool is_last = end == file.name.size();
    const int flags = is_last ? kReading : O_PATH | O_DIRECTORY | O_CLOEXEC;
    const int next = ::openat(folder, part.c_str(), flags | O_NOFOLLOW);
    const int reason = errno;
    ::close(folder);
    so_far += "/" + part;
    if (next < 0) expect_no_link(so_far, file.links);
    errno = reason;
    if (is_last) return regular(next, file.path());
    folder = next;
    begin = end + 1;
  }
  return regular(-1, file.path());
}

}  // namespace tessera
