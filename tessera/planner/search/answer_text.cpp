#include "tessera/base/text.hpp"
#include "tessera/planner/search/answer.hpp"

namespace tessera::planner {

namespace {
constexpr double kBytesInGiB = 1 << 30;
}

std::string certificate_text(const Certificate& c) {
  std::string out =
      cat(count_text(static_cast<double>(c.considered)),
          " layouts considered: ", count_text(static_cast<double>(c.priced)), " priced by the closed form, ",
          count_text(static_cast<double>(c.num_pruned())), " left without");
  std::vector<std::string> reasons;
  for (const auto& [why, count] : c.pruned)
    reasons.push_back(cat(why, " ", count_text(static_cast<double>(count))));
  if (!reasons.empty()) out += cat(" (", join(reasons, ", "), ")");
  return out + cat(", ", count_text(static_cast<double>(c.too_large)), " did not fit, ", c.simulated,
                   " compiled and simulated, in ", fixed(c.seconds, 1), " s",
                   c.gap > 0 ? cat(". The search ended before all that could be faster were simulated: by "
                                   "their bounds at "
                                   "most ",
                                   fixed(100 * c.gap, 1), " %")
                             : "");
}

namespace {
std::string about_memory(const Plan& plan) {
  const double held = plan.answers.front().refined.most_bytes();
  return cat("\nits fullest rank would hold ", fixed(held / kBytesInGiB, 1), " GiB, and tensors may take ",
             fixed(plan.limit_bytes / kBytesInGiB, 1),
             ": it can't be run so. Without --as-it-is the best layout that fits is looked for.\n");
}
}  // namespace

std::string to_text(const Plan& plan, bool explain) {
  const Answer& best = plan.answers.front();
  const std::string headline = plan.is_searched ? "best of "
                               : plan.fits()    ? "the run's own layout on "
                                                : "the run's own layout does not fit ";
  std::string out =
      cat(headline, plan.cluster.name, ", ", plan.cluster.devices(), " devices",
          plan.idle_devices > 0 ? cat(" (", plan.idle_devices, " more would not make it faster)") : "", ": ",
          layout_text(best.refined.candidate.layout), "\n",
          plan.is_fitted ? "times by a fitted stack profile"
                         : "times by data sheets alone (--stack profile.json makes them surer)",
          "; intervals hold four of five\n\n");
  const bool has_price = best.length.dollars > 0;
  std::vector<std::vector<std::string>> rows = {
      {"layout", "step s", "from", "to", "MFU %", "GiB", "of", "bubble %", "exposed %", "tokens/s", "days"}};
  if (has_price) rows[0].push_back("dollars");
  for (const Answer& answer : plan.answers) {
    const Refined& refined = answer.refined;
    rows.push_back({layout_text(refined.candidate.layout), fixed(answer.step.seconds, 3),
                    fixed(answer.step.low, 3), fixed(answer.step.high, 3), fixed(100 * answer.mfu, 1),
                    fixed(refined.most_bytes() / kBytesInGiB, 1), fixed(plan.limit_bytes / kBytesInGiB, 1),
                    fixed(100 * refined.bubble, 1), fixed(100 * refined.exposed, 1),
                    count_text(answer.tokens_per_second), fixed(answer.length.days, 2)});
    if (has_price) rows.back().push_back(count_text(answer.length.dollars));
  }
  out += table(rows) + "\n";
  for (std::size_t i = 1; i < plan.answers.size(); ++i)
    out += cat(layout_text(plan.answers[i].refined.candidate.layout), " loses ", plan.answers[i].why_it_loses,
               "\n");
  if (!plan.too_large.empty()) out += cat("\n", plan.too_large, "\n");
  out += cat("\n", certificate_text(plan.certificate), "\n");
  out += cat("failures cost ", fixed(100 * best.length.lost_to_failures, 1), " % of the time (one in ",
             fixed(plan.cluster.failure_hours / plan.cluster.devices(), 1), " hours on all devices)\n");
  if (!plan.sizes.empty()) out += cat("\nchosen from:\n", to_text(plan.sizes, plan.cluster.devices()));
  if (explain) {
    out += cat("\nwhere the time of ", plan.is_searched ? "the best" : "a step", " goes:\n");
    std::vector<std::vector<std::string>> shares = {{"part", "seconds", "%"}};
    for (const Part& part : best.refined.parts)
      if (part.seconds != 0)
        shares.push_back(
            {part.name, fixed(part.seconds, 3), fixed(100 * part.seconds / best.step.seconds, 1)});
    out += table(shares);
  }
  if (!plan.fits()) return out + about_memory(plan);
  return out + cat("\nrun it with: ", join(layout_keys(best.refined.candidate.layout), " "), "\n");
}

}  // namespace tessera::planner
