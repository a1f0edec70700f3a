#include "tessera/draw/experts/experts_picture.hpp"

#include "tessera/base/text.hpp"

namespace tessera::draw {
namespace {

std::string counted(std::int64_t count, const char* what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::string ExpertsPicture::title() const {
  return cat(
      "Load of experts: ", counted(static_cast<std::int64_t>(history.worst_of_layers().size()), "layer"),
      " x ", counted(static_cast<std::int64_t>(history.num_experts()), "expert"), ", ",
      counted(history.num_steps(), "step"));
}

std::string ExpertsPicture::summary() const {
  const WorstLoad& worst = history.worst();
  const LargestLoads& last = history.of_last_step();
  return cat(
      "Busiest expert: at worst ", fixed(worst.load, 2), " times the mean of its layer (layer ", worst.layer,
      ", expert ", worst.expert, ", step ", worst.step, "); in the last step ", fixed(last.worst, 2),
      " times",
      history.worst_of_layers().size() > 1 ? cat(", ", fixed(last.mean, 2), " on average over layers") : "",
      ".");
}

std::vector<std::string> ExpertsPicture::notes() const {
  const std::size_t experts = history.grid().experts_per_row;
  const std::int64_t steps = history.steps_per_column();
  const std::int64_t missing = history.last_step() - history.first_step() + 1 - history.num_steps();
  return {cat("From ", source, ", steps ", history.first_step(), " to ", history.last_step(),
              missing > 0 ? cat(", of which it lacks ", missing) : "",
              ". max: the busiest expert of a single step."),
          cat("A panel is a layer; ",
              experts == 1 ? "a row is an expert, 0 at the top; "
                           : cat("a row is ", experts,
                                 " experts, the first ones at the top, in the colour of the busiest; "),
              steps == 1 ? "a column is a step." : cat("a column is ", steps, " steps, summed."))};
}

}  // namespace tessera::draw
