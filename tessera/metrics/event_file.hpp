// How does TensorBoard get to see a run? Event files: records of a length, a message and check sums, a message a step.
#pragma once

#include <string>

#include "tessera/metrics/out_file.hpp"
#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

class EventFile {
 public:
  // Makes the folder if need be and a new file in it. Throws UserError when it can't.
  explicit EventFile(const std::string& folder);
  // Event files of an earlier run: TensorBoard would join them to this one. Throws UserError when it can't.
  void remove_others() const;
  // A run goes on with this step: what an earlier file has of it and of later ones is not valid.
  void write_start(std::int64_t step);
  // All measures of the step, visible to readers when this returns. Throws UserError when the disk refuses.
  void write(const StepFacts& facts);

 private:
  std::string path_;
  OutFile file_;
};

// The message as a record of the file: its length and its bytes, each followed by a masked CRC-32C.
std::string framed(const std::string& message);

}  // namespace tessera::metrics
