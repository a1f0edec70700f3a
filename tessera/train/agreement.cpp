#include "tessera/train/agreement.hpp"

#include <signal.h>

#include <cmath>

#include "tessera/base/error.hpp"

namespace tessera::train {

namespace {

// Also false when it is no number.
bool is_whole_within(double number, double least, double most) {
  return number >= least && number <= most && std::floor(number) == number;
}

[[noreturn]] void refuse(double found, const std::string& expected) {
  throw PeerLost(cat("the ranks' sum between two steps is ", found, ", but ", expected,
                     ": a rank or the network between them brought a false number"));
}

// `sums_of` adds up what all ranks bring.
Wishes agreed(const Agreement::Sums& sums_of, const Wishes& mine) {
  // How many ranks wish each of these; of several signals the first one counts.
  constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  std::vector<double> wishes = {mine.save ? 1.0 : 0.0, mine.end ? 1.0 : 0.0};
  for (const int signal : kSignals) wishes.push_back(mine.stop_signal == signal ? 1 : 0);
  const auto sums = sums_of(std::move(wishes));
  Wishes out{.save = sums[0] > 0, .end = sums[1] > 0};
  for (std::size_t i = 0; i < std::size(kSignals) && out.stop_signal == 0; ++i)
    if (sums[i + 2] > 0) out.stop_signal = kSignals[i];
  return out;
}

}  // namespace

void Agreement::ask(const Wishes& mine) {
  const bool beside = session_.program().tables.steps_overlap;
  const Sums of_session = [this, beside](std::vector<double> values) {
    return beside ? session_.sums_beside(std::move(values)) : session_.sums(std::move(values));
  };
  answer_ = std::async(beside ? std::launch::async : std::launch::deferred, agreed,
                       sums_ ? sums_ : of_session, mine);
}

std::int64_t num_ranks_where(const Session& session, bool is_so_here) {
  const auto num_ranks = session.program().tables.class_of_rank.size();
  const double least = is_so_here ? 1 : 0, most = static_cast<double>(num_ranks) - (is_so_here ? 0 : 1);
  const double found = session.sum(least);
  if (!is_whole_within(found, least, most)) refuse(found, cat("it counts ", least, " to ", most, " ranks"));
  return static_cast<std::int64_t>(found);
}

std::int64_t number_of_first(const Session& session, int rank, std::int64_t number) {
  constexpr double kExact = 0x1p53;
  const double found = session.sum(rank == 0 ? static_cast<double>(number) : 0);
  if (!is_whole_within(found, -kExact, kExact)) refuse(found, "it is a whole number");
  if (rank == 0 && static_cast<std::int64_t>(found) != number) refuse(found, cat("rank 0 brought ", number));
  return static_cast<std::int64_t>(found);
}

}  // namespace tessera::train
