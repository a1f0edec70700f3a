// Folders that a job makes for itself, and that go with it if nothing comes to lie in them.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace tessera::checkpoint {

class MadeFolders {
 public:
  MadeFolders() = default;
  // Removes those that it made and that are empty.
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  // The folder, and those above it that are missing.
  std::error_code make(const std::string& folder);

 private:
  std::vector<std::string> made_;  // from the top down
};

}  // namespace tessera::checkpoint
