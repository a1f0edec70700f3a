// A unit whose pieces are made of steps: functions from values to values, found by the names that the plan
// gives them. Whatever way the steps are dealt to pieces, the code is the same.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/model/unit.hpp"
#include "tessera/parallel/parallel_context.hpp"
#include "tessera/program/ir/tables.hpp"

namespace tessera::model {

// Targets of the tokens that the rank has inside of a branch.
Tensor branch_targets_T(const Batch& batch, const parallel::ParallelContext& context);

// The values of a forward by name, and what it is given besides.
struct StepCall {
  std::map<std::string, Tensor> values;
  const Batch& batch;
  const Batch& branch;  // the part of it that attention sees: all, or this rank's samples
  Tape& tape;
  std::vector<Tensor>& losses;                             // appended to
  collective::Result result = collective::Result::needed;  // of the step that runs
  const Tensor& operator[](const std::string& name) const { return values.at(name); }
};

class StepUnit : public Unit {
 public:
  // Gives the one value that the step writes, or all of them.
  using Step = std::function<Tensor(const StepCall&)>;
  using WideStep = std::function<std::vector<Tensor>(const StepCall&)>;

  Outcome forward(std::size_t first, std::size_t count, std::vector<Tensor> values, const Batch& batch,
                  Tape& tape) final;

 protected:
  // `described` and `context` must outlive the unit.
  StepUnit(const program::Unit& described, const parallel::ParallelContext& context)
      : described_(described), context_(context) {}
  // CHECKs that the plan has a step of this name.
  void add(const std::string& name, Step step);
  void add_wide(const std::string& name, WideStep step);
  bool has_step(const std::string& name) const;
  const program::Piece& piece(std::size_t number) const { return described_.pieces.at(number); }
  const parallel::ParallelContext& context() const { return context_; }
  // CHECKs that every step of the plan has been added.
  void check_complete() const;

 private:
  std::vector<Tensor> run(const program::Step& step, const StepCall& call) const;

  const program::Unit& described_;
  const parallel::ParallelContext& context_;
  std::map<std::string, WideStep> steps_;
};

}  // namespace tessera::model
