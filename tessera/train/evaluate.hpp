// How well a session does on samples that it is not trained on.
#pragma once

#include "tessera/metrics/step_facts.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

// With its weights as they are. All ranks call it.
metrics::EvaluationFacts evaluate(Session& session, const HeldOut& samples,
                                  const Session::Progress& progress = {});

}  // namespace tessera::train
