// What a run comes to after a few steps: numbers and whole tensors by name, whichever ranks hold parts of
// them, which can be compared between layouts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

inline constexpr int kVerifySteps = 3;  // unless more are asked for

// Gradients under this share of the RMS of all of them are zero in theory: what they are is rounding.
inline constexpr double kZeroInTheory = 1e-6;

struct Outcome {
  std::vector<double> losses, norms;                 // of each step
  double evaluation = 0;                             // the loss of other samples, after the last step
  std::vector<engine::NamedLoss> other_losses;       // those beside the first: "balance of step 1"
  std::map<std::string, tensor::Tensor> gradients;   // of the first step; vectors
  std::map<std::string, tensor::Tensor> parameters;  // after the last
  // On one device alone: of each parameter, the largest gradient of any step, as a multiple of the RMS of
  // that step's.
  std::map<std::string, double> largest_gradients;
  double learning_rates = 0;   // of all steps, summed up
  bool replicas_equal = true;  // bit by bit
  bool numbers_equal = true;   // on all ranks
};

// Of all elements that are finite.
double rms(const std::map<std::string, tensor::Tensor>& tensors);

// Equal as far as rounding goes, or not finite in the same way.
bool nearly_same(double a, double b);

// A hash of the bits of all numbers and tensors, as 16 hexadecimal digits.
std::string bits_text(const Outcome& outcome);

// Runs the steps of a session that keeps its gradients. All ranks call it; tensors are whole on rank 0 alone.
// Gradients are those before clipping, which would hide a factor that all of them have.
Outcome outcome_of(Session& session, int rank, double clip_norm, int num_steps = kVerifySteps);

}  // namespace tessera::train
