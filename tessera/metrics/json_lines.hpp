// Where do the numbers of each step go? A file of JSON lines, one flat record per line.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"

namespace tessera::metrics {

class JsonLines {
 public:
  // Begins with the lines that are there of the first `kept_steps` steps. Throws UserError when the file can't be opened.
  explicit JsonLines(const std::string& path, std::int64_t kept_steps = 0);
  // One line, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(std::span<const Field> record) { file_.write(json_object(record) + '\n'); }

 private:
  JsonLines(const std::string& path, const std::string& begin);

  OutFile file_;
};

}  // namespace tessera::metrics
