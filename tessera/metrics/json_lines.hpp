// Where do the numbers of each step go? A file of JSON lines, one flat record per line.
#pragma once

#include <fstream>
#include <span>
#include <string>

#include "tessera/metrics/field.hpp"

namespace tessera::metrics {

class JsonLines {
 public:
  // Appends, so that a resumed run continues its file. Throws UserError when the file can't be opened.
  explicit JsonLines(const std::string& path);
  // One line, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(std::span<const Field> record);

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace tessera::metrics
