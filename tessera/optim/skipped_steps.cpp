#include "tessera/optim/skipped_steps.hpp"

#include "tessera/base/text.hpp"

namespace tessera::optim {

void SkippedSteps::add(const FinishedStep& step) {
  const bool halves_loss_scale = step.loss_scale > 1;
  in_a_row_ = step.taken ? 0 : in_a_row_ + 1;
  counted_ = step.taken ? 0 : counted_ + (halves_loss_scale ? 0 : 1);
  last_step_ = step.step;
  last_ = cat("loss ", step.loss, ", gradient norm ", step.gradient_norm,
              step.loss_scale == 1 ? "" : cat(", loss scale ", step.loss_scale));
}

UserError SkippedSteps::spoilt_error(const std::string& newest) const {
  return UserError(
      cat("the gradients of step ", last_step_, " were not finite (", last_,
          "), and its updates did not wait for that to be known, as layout.overlap_steps is set and "
          "training.clip_norm is not: the weights are spoilt and are not saved. ",
          newest, " Set training.clip_norm, or lower training.learning_rate, and start again."));
}

UserError SkippedSteps::error(const std::string& newest) const {
  const std::int64_t first = last_step_ - in_a_row_ + 1;
  return UserError(cat(
      "steps ", first, " to ", last_step_, " were not taken, as their gradients were not finite (the last: ",
      last_, "); the run stops after ", most_, " such steps in a row (training.stop_after_skipped). ",
      "The weights are those before step ", first, ". ", newest,
      " Lower training.learning_rate, lengthen training.warmup_steps or set training.clip_norm, and "
      "resume from a checkpoint of a time when the loss still fell (--from); fp16 may need "
      "layout.precision = bf16."));
}

}  // namespace tessera::optim
