// Replicas that make local steps, written out with a session of one device for each of them.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

using Losses = std::map<std::pair<int, std::int64_t>, double>;  // by replica and step

class WrittenOut {
 public:
  WrittenOut(const spec::Run& run, const collective::Communicator& one) : run_(run), one_(one) {}

  // Replica 1 is lost after its step `last`, and let in again after `let_in_after`.
  Losses losses(std::int64_t last, std::int64_t let_in_after) {
    const auto count = static_cast<int>(run_.layout.dp_replicate);
    for (int replica = 0; replica < count; ++replica) make(replica);
    for (auto& bucket : sessions_[0]->buckets()) {
      outer_.push_back(bucket.shard().clone());
      momentum_.push_back(bucket.shard().mul(0));
    }
    Losses out;
    for (std::int64_t step = 1; step <= run_.training.steps; ++step) {
      if (step == last + 1) sessions_.erase(1);
      const std::int64_t met = step - 1;
      if (met > 0 && met % run_.training.local_steps == 0) {
        begin_exchange();
        if (met == let_in_after) let_in();
        begun_after_ = met;
        if (run_.training.outer_delay == 0) finish(met);
      }
      for (auto& [replica, session] : sessions_) out[{replica, step}] = session->step().loss;
      if (run_.training.outer_delay > 0 && step == begun_after_ + run_.training.outer_delay) finish(step);
    }
    return out;
  }

 private:
  Session& make(int replica) {
    spec::Run run = run_;
    run.layout = {.micro_batch = 1, .precision = spec::Precision::fp64};
    run.training.global_batch /= run_.layout.dp_replicate;
    run.training.local_steps = 0;
    run.training.outer_optimizer = spec::OuterOptimizer::average;
    run.training.outer_delay = 0;
    const auto share = static_cast<std::uint64_t>(run.training.global_batch),
               replicas = static_cast<std::uint64_t>(run_.layout.dp_replicate);
    const Source whole = random_source(run_.model);
    auto& session = sessions_[replica];
    session = std::make_unique<Session>(
        session_plan(run), one_,
        [=](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
            std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
          std::vector<std::uint64_t> of_all;
          for (const std::uint64_t sample : samples)
            of_all.push_back((sample / share * replicas + static_cast<std::uint64_t>(replica)) * share +
                             sample % share);
          whole(of_all, tokens, targets, documents);
        });
    return *session;
  }

  void begin_exchange() {
    begun_with_.clear();
    moved_.clear();
    for (std::size_t i = 0; i < outer_.size(); ++i) {
      tensor::Tensor sum = outer_[i].mul(0);
      for (auto& [replica, session] : sessions_) {
        begun_with_[replica].push_back(session->buckets()[i].shard().clone());
        sum.add_(outer_[i].sub(begun_with_[replica].back()));
      }
      moved_.push_back(sum.div(static_cast<double>(sessions_.size())));
    }
  }

  void let_in() {
    Session& first = *sessions_.at(0);
    Session& newcomer = make(1);
    newcomer.go_on_from(first.progress());
    for (std::size_t i = 0; i < outer_.size(); ++i) {
      const auto from = first.kept(first.buckets()[i]), to = newcomer.kept(newcomer.buckets()[i]);
      for (std::size_t part = 0; part < to.size(); ++part) {
        tensor::Tensor into = to[part].flat;
        into.copy_(part == 0 ? outer_[i] : from[part].flat);
      }
      newcomer.put_back(newcomer.buckets()[i], to);
      begun_with_[1].push_back(outer_[i].clone());
    }
  }

  void finish(std::int64_t step) {
    const double rate = run_.training.outer_learning_rate, keep = run_.training.outer_momentum;
    for (std::size_t i = 0; i < outer_.size(); ++i) {
      momentum_[i] = momentum_[i].mul(keep).add(moved_[i]);
      outer_[i] = outer_[i].sub(moved_[i], rate).sub(momentum_[i], rate * keep);
      for (auto& [replica, session] : sessions_) {
        const auto kept = session->kept(session->buckets()[i]);
        tensor::Tensor own = kept.front().flat;
        if (step == begun_after_)
          own.copy_(outer_[i]);
        else
          own.add_(outer_[i].sub(begun_with_[replica][i]));
        session->put_back(session->buckets()[i], kept);
      }
    }
  }

  const spec::Run& run_;
  const collective::Communicator& one_;
  std::map<int, std::unique_ptr<Session>> sessions_;
  std::vector<tensor::Tensor> outer_, momentum_, moved_;
  std::map<int, std::vector<tensor::Tensor>> begun_with_;
  std::int64_t begun_after_ = -1'000;
};

}  // namespace tessera::train
