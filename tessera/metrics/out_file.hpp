// How do bytes reach a file, so that a full disk is noticed? The one door of this module to files it writes.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace tessera::metrics {

class OutFile {
 public:
  // Begins empty. `option` is the one that names the place, for messages. Throws UserError when the file can't be
  // opened; what was there is then as it was.
  OutFile(const std::string& path, std::string option);
  // All of it, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(std::string_view bytes);

 private:
  [[noreturn]] void refuse(const char* what) const;

  std::string path_, option_;
  std::ofstream out_;
};

}  // namespace tessera::metrics
