// The weights a run starts from if it doesn't draw them: those of a safetensors file, or of a Hugging Face
// folder.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/process/activity.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::checkpoint {
class TensorFiles;
}

namespace tessera::train {

// Tensors of the parameters' names, or as `transformers` stores them (checkpoint/huggingface/foreign.hpp).
class WeightsFile {
 public:
  // Of model.weights. Throws UserError naming what is missing, surplus or has another shape.
  WeightsFile(const spec::Model& model, const program::Tables& tables);
  ~WeightsFile();
  // Copies what this rank's slice of the bucket holds; each parameter is told to the log, if there is one.
  void fill(shard::FlatBucket& bucket, ActivityLog* log = nullptr) const;

 private:
  std::unique_ptr<checkpoint::TensorFiles> file_;
};

}  // namespace tessera::train
