// The numbers of each step as a file of JSON lines, one flat record per line. A run that goes on keeps what
// an earlier one wrote of the steps before; nothing of it is ever lost (Note [History]).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/metrics/field.hpp"
#include "tessera/metrics/outputs/record_file.hpp"

namespace tessera::metrics {

class JsonLines {
 public:
  // Begins with the lines that are there of the first `kept_steps` steps. Throws UserError when the file
  // can't be written for a reason that doesn't pass.
  explicit JsonLines(const std::string& path, std::int64_t kept_steps = 0);

  void write(std::int64_t step, std::span<const Field> record) {
    file_.add(step, json_object(record) + '\n');
  }
  RecordFile& file() { return file_; }

 private:
  RecordFile file_;
};

// Where lines go that a run which begins earlier does not keep: "metrics.superseded.jsonl" beside
// "metrics.jsonl".
std::string superseded_path(const std::string& path);

}  // namespace tessera::metrics
