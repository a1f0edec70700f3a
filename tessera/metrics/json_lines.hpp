// Where do the numbers of each step go? A file of JSON lines, one flat record per line.
#pragma once

#include <span>
#include <string>

#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"

namespace tessera::metrics {

class JsonLines {
 public:
  // Appends, so that a resumed run continues its file. Throws UserError when the file can't be opened.
  explicit JsonLines(const std::string& path) : file_(path, OutFile::Begin::append, "--out") {}
  // One line, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(std::span<const Field> record) { file_.write(json_object(record) + '\n'); }

 private:
  OutFile file_;
};

}  // namespace tessera::metrics
