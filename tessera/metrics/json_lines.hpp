// Where do the numbers of each step go? A file of JSON lines, one flat record per line.
#pragma once

#include <span>
#include <string>

#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"

namespace tessera::metrics {

class JsonLines {
 public:
  // Throws UserError when the file can't be opened.
  explicit JsonLines(const std::string& path) : file_(path, "--out") {}
  // One line, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(std::span<const Field> record) { file_.write(json_object(record) + '\n'); }

 private:
  OutFile file_;
};

}  // namespace tessera::metrics
