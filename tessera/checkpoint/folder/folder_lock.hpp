// Keeps a folder to one job: a file in it, locked for as long as the job lives, that says who holds it.
//
// The lock is the system's, on the open file: it ends with the process, however that ends, so the file that a
// killed job leaves holds nobody up.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/files/descriptor.hpp"
#include "tessera/checkpoint/folder/made_folders.hpp"

namespace tessera::checkpoint {

inline constexpr char kLockName[] = "run.lock";

class FolderLock {
 public:
  // Makes the folder if need be; a job that ends without writing into it leaves none behind. Throws UserError
  // that names the holder when another job has it, or when the folder can't be written. `option` is the one
  // that names the folder, for messages.
  FolderLock(const std::string& folder, const std::string& option);
  // Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Why another job in this folder might not be seen, as a sentence; empty: it would be.
  const std::string& warning() const { return warning_; }

 private:
  void open();
  bool take();
  bool is_still_named() const;
  void say_who() const;

  std::string folder_, option_, path_, warning_;
  MadeFolders made_;
  Descriptor file_;
  bool is_held_ = false;
};

// Whether a job holds the folder now; true where its file system can't tell and the file is there.
bool is_locked(const std::string& folder);

// Locks on all of them, once for a folder that is named twice.
struct NamedFolder {
  std::string folder, option;
};
std::vector<std::unique_ptr<FolderLock>> lock_folders(const std::vector<NamedFolder>& folders);

// Of the text of /proc/self/mountinfo: why locks on a device reach no further than this host, or may not;
// empty: they do reach all who see the files.
std::string lock_limit(std::string_view mount_info, unsigned major, unsigned minor);

}  // namespace tessera::checkpoint
