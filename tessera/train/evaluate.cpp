#include "tessera/train/evaluate.hpp"

#include "tessera/base/clock.hpp"

namespace tessera::train {

metrics::EvaluationFacts evaluate(Session& session, const HeldOut& samples,
                                  const Session::Progress& progress) {
  const double start = now_seconds();
  const engine::LossSum loss = session.evaluate(samples.source, 0, samples.samples, progress).front();
  return {.loss = loss.sum / loss.tokens,
          .bytes_per_token = samples.bytes_per_token,
          .samples = static_cast<std::int64_t>(samples.samples),
          .seconds = now_seconds() - start};
}

}  // namespace tessera::train
