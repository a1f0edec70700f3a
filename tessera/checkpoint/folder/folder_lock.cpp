#include "tessera/checkpoint/folder/folder_lock.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <thread>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/files/transient.hpp"
#include "tessera/base/process/host_name.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;

// Within it a holder has written its name, and one that is ending has ended.
constexpr std::chrono::milliseconds kPause{50};
constexpr int kAttempts = 3;
constexpr std::size_t kLongestHolder = 400;

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry ? entry->pw_name : cat(::geteuid());
}

std::string this_job() {
  char since[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&now, &parts));
  return cat("process ", ::getpid(), " of user ", user_name(), " on host ", host_name(), ", since ", since);
}

// What the file says, made fit for a message: anyone may have written it.
std::string holder_in(const std::string& path) {
  std::string text = file_text(path).substr(0, kLongestHolder);
  text = text.substr(0, text.find('\n'));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text.empty() ? "another job, which could not write its name there" : text;
}

// What a lock on all of a file is asked for with.
struct flock whole_file() {
  struct flock out {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  return out;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

std::string lock_limit(std::string_view mount_info, unsigned major, unsigned minor) {
  std::istringstream lines{std::string(mount_info)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, device, word, type, source, options;
    words >> id >> parent >> device;
    while (words >> word && word != "-") {
    }
    if (device != cat(major, ":", minor) || !(words >> type >> source >> options)) continue;
    const auto has = [&](const char* option) {
      return cat(",", options, ",").find(option) != std::string::npos;
    };
    if (has(",local_lock=all,") || has(",local_lock=posix,") || has(",localflock,"))
      return cat("it lies on ", type, ", mounted so that locks hold on this host alone");
    if (type.starts_with("fuse")) return cat("it lies on ", type, ", which may keep locks to this host");
    return "";
  }
  return "";
}

FolderLock::FolderLock(const std::string& folder, const std::string& option)
    : folder_(folder), option_(option), path_(cat(folder, "/", kLockName)) {
  for (int attempt = 1; !is_held_; ++attempt) {
    open();
    if (!warning_.empty()) return;
    // The last holder may have removed the file between the two.
    is_held_ = take() && is_still_named();
    if (!warning_.empty()) return;
    if (!is_held_ && attempt == kAttempts)
      throw UserError(
          cat(option_, " ", folder_, " is in use by ", holder_in(path_),
              ". Two jobs in one folder would spoil each other's checkpoints: wait until that one "
              "has ended or stop it, or give this one another folder."));
    if (!is_held_) std::this_thread::sleep_for(kPause);
  }
  say_who();
  struct stat found {};
  if (::fstat(file_.number(), &found) != 0) return;
  const std::string limit =
      lock_limit(file_text("/proc/self/mountinfo"), gnu_dev_major(found.st_dev), gnu_dev_minor(found.st_dev));
  if (!limit.empty())
    warning_ = cat("a job on another host that uses '", folder_, "' would not be noticed: ", limit);
}

FolderLock::~FolderLock() {
  if (is_held_) ::unlink(path_.c_str());  // before the lock goes: afterwards it may be another's
}

void FolderLock::open() {
  std::error_code error = made_.make(folder_);
  int reason = error.value();
  if (!error) {
    // Whatever lies there may have been put there by another: no links, nothing that waits for a writer.
    file_ = Descriptor(
        ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
    struct stat found {};
    if (file_.number() >= 0 && ::fstat(file_.number(), &found) == 0 && S_ISREG(found.st_mode)) return;
    reason = file_.number() >= 0 ? EINVAL : errno;
  }
  if (is_transient(reason)) {
    warning_ = cat("whether another job uses '", folder_, "' is not known: ", std::strerror(reason));
    return;
  }
  const bool is_of_another = reason == EACCES && fs::exists(path_, error);
  throw UserError(cat("cannot lock '", folder_, "': ", std::strerror(reason),
                      is_of_another ? cat(" (its ", kLockName, " is of ", holder_in(path_), ")") : "",
                      ". Name another folder with ", option_, "."));
}

bool FolderLock::take() {
  struct flock whole = whole_file();
  if (::fcntl(file_.number(), F_OFD_SETLK, &whole) == 0) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR || errno == ESTALE) return false;
  warning_ = cat("whether another job uses '", folder_, "' is not known, as its file system has no locks (",
                 std::strerror(errno), "); make sure that none does");
  return false;
}

// By another open: over a network the name is looked up anew then.
bool FolderLock::is_still_named() const {
  const Descriptor again(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat held {
  }, named{};
  return again.number() >= 0 && ::fstat(file_.number(), &held) == 0 && ::fstat(again.number(), &named) == 0 &&
         is_same_file(held, named);
}

// For people: a disk that is full does not end the job here.
void FolderLock::say_who() const {
  const std::string text = this_job() + "\n";
  if (::ftruncate(file_.number(), 0) != 0) return;
  std::ignore = ::pwrite(file_.number(), text.data(), text.size(), 0);
}

bool is_locked(const std::string& folder) {
  const Descriptor file(
      ::open(cat(folder, "/", kLockName).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number() < 0) return false;
  struct flock whole = whole_file();
  return ::fcntl(file.number(), F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

std::vector<std::unique_ptr<FolderLock>> lock_folders(const std::vector<NamedFolder>& folders) {
  std::vector<std::unique_ptr<FolderLock>> out;
  std::vector<struct stat> locked;
  for (const auto& [folder, option] : folders) {
    struct stat found {};
    const bool is_there = ::stat(folder.c_str(), &found) == 0;
    const bool is_locked = is_there && std::ranges::any_of(locked, [&](const struct stat& other) {
                             return is_same_file(found, other);
                           });
    if (is_locked) continue;
    out.push_back(std::make_unique<FolderLock>(folder, option));
    if (::stat(folder.c_str(), &found) == 0) locked.push_back(found);
  }
  std::ranges::reverse(out);  // a folder in another one goes before it
  return out;
}

}  // namespace tessera::checkpoint
