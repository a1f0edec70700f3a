#include "tessera/checkpoint/folder/made_folders.hpp"

#include <unistd.h>

#include <filesystem>

namespace tessera::checkpoint {

namespace fs = std::filesystem;

std::error_code MadeFolders::make(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path path = fs::absolute(folder, error).lexically_normal(); !error && !fs::exists(path, error);
       path = path.parent_path())
    missing.push_back(path);
  for (auto path = missing.rbegin(); !error && path != missing.rend(); ++path)
    if (fs::create_directory(*path, error)) made_.push_back(path->string());
  if (!error) fs::create_directories(folder, error);
  return error;
}

MadeFolders::~MadeFolders() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::rmdir(path->c_str());
}

}  // namespace tessera::checkpoint
