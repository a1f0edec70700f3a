#include "tessera/checkpoint/folder/save_request.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/files/replace_file.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::chrono::milliseconds kLook{50};

std::string request_path(const std::string& folder) { return cat(folder, "/save.request"); }
std::string answer_path(const std::string& folder) { return cat(folder, "/save.answer"); }

// The file itself, never what a link points to.
std::optional<struct stat> found(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return facts;
}

// An answer is replaced as a whole, by a file of its own.
bool is_same(const std::optional<struct stat>& a, const std::optional<struct stat>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void check_owner(const std::string& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0)
    throw UserError(cat("'", folder, "': ", std::strerror(errno),
                        ". Name the folder of a run that is under way (--out of tessera train)."));
  if (facts.st_uid != ::geteuid())
    throw UserError(cat("'", folder, "' belongs to the user with id ", facts.st_uid,
                        ", and only that one may ask its job to save; this is ", ::geteuid(), "."));
}

SaveAnswer read_answer(const std::string& folder) {
  std::istringstream text(file_text(answer_path(folder)));
  SaveAnswer out;
  std::string first;
  if (!std::getline(text, first) || !std::getline(text, out.words))
    throw UserError(cat("the answer in '", answer_path(folder), "' could not be read"));
  out.step = std::strtoll(first.c_str(), nullptr, 10);
  return out;
}

}  // namespace

bool SaveRequests::is_asked() const {
  if (folder_.empty()) return false;
  const auto request = found(request_path(folder_));
  return request && request->st_uid == ::geteuid();
}

void SaveRequests::answer(const SaveAnswer& answer) const {
  const std::string text = cat(answer.step, "\n", answer.words, "\n");
  const auto bytes = std::as_bytes(std::span(text));
  try {
    replace_file(answer_path(folder_), std::span(&bytes, 1));
  } catch (...) {
    ::unlink(request_path(folder_).c_str());
    throw;
  }
  ::unlink(request_path(folder_).c_str());
}

SaveAnswer ask_for_save(const std::string& folder, const std::function<bool()>& is_running) {
  check_owner(folder);
  if (!is_running())
    throw UserError(cat("no job runs in '", folder,
                        "'. Name the folder of a run that is under way (--out of tessera train)."));
  const auto before = found(answer_path(folder));
  const std::string path = request_path(folder);
  // One that is there already is somebody's who waits too: both get the same answer.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0 && errno != EEXIST) throw UserError(cat("cannot write '", path, "': ", std::strerror(errno)));
  if (file >= 0) ::close(file);
  bool was_running = true;
  while (found(path)) {
    if (!was_running) {  // looked at once more after its end: its last save answers too
      ::unlink(path.c_str());
      throw UserError(cat("the job in '", folder, "' ended before it saved"));
    }
    was_running = is_running();
    std::this_thread::sleep_for(kLook);
  }
  if (is_same(before, found(answer_path(folder))))
    throw UserError(cat("the job in '", folder, "' took the request, but could not write its answer to '",
                        answer_path(folder), "'"));
  return read_answer(folder);
}

}  // namespace tessera::checkpoint
