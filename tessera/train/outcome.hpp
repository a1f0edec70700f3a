// What does a run come to after a few steps? Numbers and whole tensors by name, whichever ranks hold parts of them: what can
// be compared between layouts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

inline constexpr int kVerifySteps = 3;

struct Outcome {
  std::vector<double> losses, norms;                 // of each step
  std::map<std::string, tensor::Tensor> gradients;   // of the first step; vectors
  std::map<std::string, tensor::Tensor> parameters;  // after the last
  bool replicas_equal = true;                        // bit by bit
  bool numbers_equal = true;                         // on all ranks
};

// Runs the steps of a session that keeps its gradients. All ranks call it; tensors are whole on rank 0 alone. Gradients are
// those before clipping, which would hide a factor that all of them have.
Outcome outcome_of(Session& session, int rank, double clip_norm);

}  // namespace tessera::train
