// TensorBoard's event files: records of a length, a message and check sums, a message a step.
#pragma once

#include <string>

#include "tessera/metrics/outputs/record_file.hpp"
#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

class EventFile {
 public:
  // Makes the folder if need be and a new file in it. Throws UserError when it can't for a reason that
  // doesn't pass.
  explicit EventFile(const std::string& folder);
  // Whether earlier runs have left theirs in the folder. TensorBoard joins all of them.
  bool has_others() const;
  // A run goes on with this step: what an earlier file has of it and of later ones is not valid.
  void write_start(std::int64_t step);
  // All measures of the step.
  void write(const StepFacts& facts);
  RecordFile& file() { return file_; }

 private:
  std::string path_;
  RecordFile file_;
};

// The message as a record of the file: its length and its bytes, each followed by a masked CRC-32C.
std::string framed(const std::string& message);

}  // namespace tessera::metrics
