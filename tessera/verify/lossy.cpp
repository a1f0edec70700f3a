#include "tessera/verify/lossy.hpp"

#include <cmath>
#include <memory>

#include "tessera/base/error.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/data/batch_plan.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"

namespace tessera::train {

namespace {

using program::Bucket;
using program::Wire;
using tensor::Tensor;
using Named = std::map<std::string, Tensor>;  // vectors, by parameter

// Rounded as it travels, in the dtype of `flat`.
Tensor rounded(const Tensor& flat, Wire wire, std::int64_t block) {
  if (wire == Wire::exact) return flat;
  if (wire == Wire::bf16) return flat.to(at::kBFloat16).to(flat.scalar_type());
  const std::int64_t blocks = (flat.numel() + block - 1) / block;
  Tensor filled = tensor::zeros({blocks * block}, flat.scalar_type());
  filled.narrow(0, 0, flat.numel()).copy_(flat);
  const Tensor x = filled.view({blocks, block});
  const Tensor scale = x.abs().amax(1, true).div(127).to(at::kFloat).to(flat.scalar_type());
  const Tensor divisor = scale.masked_fill(scale.eq(0), 1);
  return x.div(divisor).round().clamp(-127, 127).mul(scale).view({-1}).narrow(0, 0, flat.numel());
}

Tensor rounded_in_parts(const Tensor& flat, std::int64_t part, Wire wire, std::int64_t block) {
  std::vector<Tensor> out;
  for (std::int64_t at = 0; at < flat.numel(); at += part)
    out.push_back(rounded(flat.narrow(0, at, std::min(part, flat.numel() - at)), wire, block));
  return tensor::concatenate(out, 0);
}

// All members' flats, summed so that all have the sum: rounded by part of each member, and the sum once more.
Tensor sum_for_all(const std::vector<Tensor>& flats, const Bucket& bucket) {
  const auto n = std::ssize(flats);
  const std::int64_t elements = flats.front().numel(), blocks = (elements + n - 1) / n;
  const std::int64_t part = (blocks + bucket.block - 1) / bucket.block * bucket.block;
  Tensor sum = tensor::zeros({elements}, flats.front().scalar_type());
  for (const Tensor& flat : flats)
    sum.add_(n == 1 ? flat : rounded_in_parts(flat, part, bucket.reduced_as, bucket.block));
  return n == 1 ? sum : rounded_in_parts(sum, part, bucket.reduced_as, bucket.block);
}

class Reference {
 public:
  Reference(const spec::Run& run, const spec::Run& alone, const Source& source)
      : run_(run),
        alone_(alone),
        source_(source),
        tables_(plan::compile(families::step_request(run)).tables) {
    const spec::Layout& layout = run.layout;
    if (layout.tp > 1 || layout.cp > 1 || run.model.experts > 0 || run.model.dropout > 0)
      throw UserError(
          "traffic that is rounded is verified in layouts of data parallelism, ZeRO and stages, without "
          "experts and dropout. Leave tp and cp out, or verify the layout with compress_gradients and "
          "compress_weights none.");
    if (run.model.tied_embeddings && layout.pp > 1)
      throw UserError(
          "traffic that is rounded is verified with tied embeddings where one stage holds them: leave "
          "layout.pp out, or write model.tied_embeddings = false");
    if (layout.zero >= 2 && layout.reduce_every > 1)
      throw UserError("traffic that is rounded is verified with layout.reduce_every 0 or 1");
  }

  Outcome outcome(int num_steps) {
    Outcome out;
    collective::run_ranks(1, [&](const collective::Communicator& one) {
      one_ = &one;
      Session whole(session_plan(alone_), one, source_);
      for (auto& bucket : whole.buckets())
        for (const auto& parameter : bucket.table().parameters)
          weights_[parameter.name] = shard::parameter_in(bucket.shard(), parameter).reshape({-1}).clone();
      for (int i = 0; i < num_steps; ++i) step(i, out);
      fill(whole, travelled(weights_));
      const auto count = static_cast<std::uint64_t>(alone_.training.global_batch) + 1;
      const auto sums = whole.evaluate(source_, kFarAway, count);
      out.evaluation = sums.front().sum / sums.front().tokens;
      out.parameters = weights_;
      sessions_.clear();
    });
    return out;
  }

 private:
  static constexpr std::uint64_t kFarAway = 1'000'000;  // as outcome_of() has it

  void fill(Session& session, const Named& weights) const {
    for (auto& bucket : session.buckets())
      for (const auto& parameter : bucket.table().parameters)
        bucket.fill(parameter, weights.at(parameter.name).view(parameter.shape));
  }

  Tensor flat_of(const Bucket& bucket, const Named& values) const {
    Tensor flat = tensor::zeros({bucket.elements}, at::kDouble);
    for (const auto& parameter : bucket.parameters)
      flat.narrow(0, parameter.offset, parameter.elements()).copy_(values.at(parameter.name));
    return flat;
  }

  static void take(const Bucket& bucket, const Tensor& flat, Named& values) {
    for (const auto& parameter : bucket.parameters)
      values[parameter.name] = flat.narrow(0, parameter.offset, parameter.elements()).clone();
  }

  // What is computed with: as it arrives where it is gathered.
  Named travelled(const Named& weights) const {
    Named out = weights;
    for (const Bucket& bucket : tables_.buckets) {
      const std::int64_t slices = tables_.num_slices(bucket);
      if (slices > 1)
        take(bucket,
             rounded_in_parts(flat_of(bucket, weights), bucket.elements / slices, bucket.gathered_as,
                              bucket.block),
             out);
    }
    return out;
  }

  struct Partial {
    Named gradients;  // of the mean over its own tokens
    double loss = 0, tokens = 0;
  };

  // Of these samples; none: nothing.
  std::optional<Partial> partial(const std::vector<std::uint64_t>& samples, const Named& weights) {
    if (samples.empty()) return std::nullopt;
    auto& session = sessions_[samples.size()];
    if (!session) {
      spec::Run run = alone_;
      run.training.global_batch = std::ssize(samples);
      run.layout.micro_batch = run.training.global_batch;
      run.training.clip_norm = 0;
      session = std::make_unique<Session>(
          session_plan(run), *one_,
          [this](std::span<const std::uint64_t> asked, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
            std::vector<std::uint64_t> of_all;
            for (const std::uint64_t sample : asked) of_all.push_back(samples_.at(sample % samples_.size()));
            source_(of_all, tokens, targets, documents);
          },
          Variation{.keep_gradients = true});
    }
    samples_ = samples;
    fill(*session, weights);
    const auto report = session->step();
    Partial out{.loss = report.loss, .tokens = report.tokens};
    for (auto& bucket : session->buckets())
      for (const auto& parameter : bucket.table().parameters)
        out.gradients[parameter.name] =
            shard::parameter_in(bucket.kept_gradient(), parameter).reshape({-1}).clone();
    return out;
  }

  // One reduction of each bucket, of what the ranks have added up until then.
  void reduce(const std::vector<std::optional<Partial>>& of_ranks, double all_tokens, Named& sums) {
    const auto replicas = run_.layout.dp_replicate, sharers = run_.layout.dp_shard;
    for (const Bucket& bucket : tables_.buckets) {
      std::vector<Tensor> flats;
      for (const auto& of_rank : of_ranks)
        flats.push_back(of_rank ? flat_of(bucket, of_rank->gradients).mul(of_rank->tokens / all_tokens)
                                : tensor::zeros({bucket.elements}, at::kDouble));
      if (run_.layout.zero == 0) {
        Named found;
        take(bucket, sum_for_all(flats, bucket), found);
        add(found, sums);
        continue;
      }
      std::vector<Tensor> of_replicas;
      for (std::int64_t replica = 0; replica < replicas; ++replica) {
        Tensor sum = tensor::zeros({bucket.elements}, at::kDouble);
        for (std::int64_t sharer = 0; sharer < sharers; ++sharer) {
          const Tensor& flat = flats[static_cast<std::size_t>(replica * sharers + sharer)];
          sum.add_(sharers == 1
                       ? flat
                       : rounded_in_parts(flat, bucket.elements / sharers, bucket.reduced_as, bucket.block));
        }
        of_replicas.push_back(sum);
      }
      partials_of_replicas_[bucket.name].push_back(of_replicas);
    }
  }

  static void add(const Named& more, Named& sums) {
    for (const auto& [name, value] : more) {
      const auto [known, is_new] = sums.try_emplace(name, value);
      if (!is_new) known->second = known->second.add(value);
    }
  }

  // Replicas of a slice sum what they have added up, last.
  void reduce_over_replicas(Named& sums) {
    for (const Bucket& bucket : tables_.buckets) {
      const auto found = partials_of_replicas_.find(bucket.name);
      if (found == partials_of_replicas_.end()) continue;
      std::vector<Tensor> added = found->second.front();
      for (std::size_t event = 1; event < found->second.size(); ++event)
        for (std::size_t replica = 0; replica < added.size(); ++replica)
          added[replica] = added[replica].add(found->second[event][replica]);
      const std::int64_t slices = tables_.num_slices(bucket), slice = bucket.elements / slices;
      std::vector<Tensor> parts;
      for (std::int64_t i = 0; i < slices; ++i) {
        std::vector<Tensor> of_replicas;
        for (const Tensor& each : added) of_replicas.push_back(each.narrow(0, i * slice, slice));
        parts.push_back(sum_for_all(of_replicas, bucket));
      }
      take(bucket, tensor::concatenate(parts, 0), sums);
    }
    partials_of_replicas_.clear();
  }

  void step(int number, Outcome& out) {
    const spec::Layout& layout = run_.layout;
    const Named weights = travelled(weights_);
    const auto first = static_cast<std::uint64_t>(number * run_.training.global_batch);
    const std::int64_t micros = tables_.num_micro;
    const bool by_micro = layout.zero >= 2 && layout.reduce_every == 1;
    std::vector<std::vector<std::optional<Partial>>> events;
    double tokens = 0, loss = 0;
    for (std::int64_t event = 0; event < (by_micro ? micros : 1); ++event) {
      auto& of_ranks = events.emplace_back();
      for (std::int64_t rank = 0; rank < layout.dp(); ++rank) {
        std::vector<std::uint64_t> samples;
        for (std::int64_t micro = by_micro ? event : 0; micro < (by_micro ? event + 1 : micros); ++micro) {
          const auto more = data::samples_of(first, run_.training.global_batch, rank, layout.dp(),
                                             layout.micro_batch, micro);
          samples.insert(samples.end(), more.begin(), more.end());
        }
        of_ranks.push_back(partial(samples, weights));
        if (!of_ranks.back()) continue;
        tokens += of_ranks.back()->tokens;
        loss += of_ranks.back()->loss * of_ranks.back()->tokens;
      }
    }
    Named gradients;
    for (const auto& of_ranks : events) reduce(of_ranks, tokens, gradients);
    reduce_over_replicas(gradients);
    double squares = 0;
    for (const auto& [name, gradient] : gradients) squares += gradient.square().sum().item<double>();
    const double norm = std::sqrt(squares);
    out.losses.push_back(loss / tokens);
    out.norms.push_back(norm);
    const double scale = rms(gradients);
    for (const auto& [name, gradient] : gradients)
      out.largest_gradients[name] =
          std::max(out.largest_gradients[name], gradient.abs().max().item<double>() / scale);
    if (number == 0) out.gradients = gradients;
    update(number, gradients, optim::clip_scale(tensor::number(norm), run_.training.clip_norm).item<double>(),
           out);
  }

  // AdamW and SGD, written out.
  void update(int number, const Named& gradients, double clip, Outcome& out) {
    const spec::Training& t = run_.training;
    const double rate = optim::learning_rate(t, number), count = number + 1;
    out.learning_rates += rate;
    for (const Bucket& bucket : tables_.buckets)
      for (const auto& parameter : bucket.parameters) {
        Tensor& w = weights_.at(parameter.name);
        const Tensor g = gradients.at(parameter.name).mul(clip);
        const double decay = bucket.weight_decay ? t.weight_decay : 0;
        auto& [first, second] = moments_[parameter.name];
        if (number == 0) first = tensor::zeros({w.numel()}, at::kDouble), second = first.clone();
        if (t.optimizer == spec::Optimizer::sgd) {
          first = first.mul(t.momentum).add(g.add(w, decay));
          w = w.sub(first, rate);
          continue;
        }
        first = first.mul(t.beta1).add(g, 1 - t.beta1);
        second = second.mul(t.beta2).add(g.square(), 1 - t.beta2);
        const Tensor root = second.div(1 - std::pow(t.beta2, count)).sqrt().add(t.epsilon);
        w = w.mul(1 - rate * decay).sub(first.div(1 - std::pow(t.beta1, count)).div(root), rate);
      }
  }

  const spec::Run& run_;
  const spec::Run& alone_;
  const Source& source_;
  const program::Tables tables_;
  const collective::Communicator* one_ = nullptr;
  Named weights_;
  std::map<std::string, std::pair<Tensor, Tensor>> moments_;
  std::map<std::size_t, std::unique_ptr<Session>> sessions_;  // by how many samples they take
  std::vector<std::uint64_t> samples_;                        // of the step under way
  // By bucket, of each reduction what each replica has.
  std::map<std::string, std::vector<std::vector<Tensor>>> partials_of_replicas_;
};

}  // namespace

bool rounds_traffic(const spec::Layout& layout) {
  const auto rounds = [](spec::Compression kind) {
    return kind == spec::Compression::bf16 || kind == spec::Compression::int8;
  };
  return rounds(layout.compress_gradients) || rounds(layout.compress_weights);
}

Outcome lossy_outcome(const spec::Run& run, const spec::Run& alone, const Source& source, int num_steps) {
  return Reference(run, alone, source).outcome(num_steps);
}

}  // namespace tessera::train
