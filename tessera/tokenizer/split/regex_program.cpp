#include "tessera/tokenizer/split/regex_program.hpp"

#include "tessera/base/error.hpp"

namespace tessera::tokenizer {

namespace {

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;

constexpr std::size_t kMostInstructions = 20'000;

class RegexCompiler {
 public:
  std::vector<Instruction> compile(const RegexNode& root) {
    add(root);
    emit({.op = RegexOp::done});
    return std::move(out_);
  }

 private:
  int place() const { return static_cast<int>(out_.size()); }
  Instruction& at(int place) { return out_[static_cast<std::size_t>(place)]; }
  int emit(const Instruction& instruction) {
    if (out_.size() >= kMostInstructions)
      throw UserError("a split pattern repeats so much that it is too long to interpret");
    out_.push_back(instruction);
    return place() - 1;
  }

  void add(const RegexNode& node) {
    switch (node.kind) {
      case Kind::sequence:
        for (const RegexNode& child : node.children) add(child);
        return;
      case Kind::choice:
        return add_choice(node);
      case Kind::set:
        emit({.op = RegexOp::set, .set = node.set});
        return;
      case Kind::repeat:
        return add_repeat(node);
      case Kind::atomic:
        return add_enclosed(RegexOp::atomic, node.children[0], false);
      case Kind::look:
        return add_enclosed(RegexOp::look, node.children[0], node.negated);
      default:
        emit({.op = RegexOp::assertion, .set = node.set, .negated = node.negated, .assertion = node.kind});
    }
  }

  void add_enclosed(RegexOp op, const RegexNode& child, bool negated) {
    const int begin = emit({.op = op, .negated = negated});
    add(child);
    emit({.op = RegexOp::done});
    at(begin).to = place();
  }

  void add_choice(const RegexNode& node) {
    std::vector<int> ends;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const bool is_last = i + 1 == node.children.size();
      const int fork = is_last ? -1 : emit({.op = RegexOp::fork});
      if (!is_last) at(fork).to = place();
      add(node.children[i]);
      if (is_last) break;
      ends.push_back(emit({.op = RegexOp::jump}));
      at(fork).other = place();
    }
    for (const int end : ends) at(end).to = place();
  }

  void add_repeat(const RegexNode& node) {
    const RegexNode& child = node.children[0];
    if (child.kind == Kind::set) {
      emit({.op = RegexOp::run,
            .set = child.set,
            .least = node.least,
            .most = node.most,
            .greed = node.greed});
      return;
    }
    if (node.greed == Greed::possessive) {
      RegexNode greedy = node;
      greedy.greed = Greed::greedy;
      return add_enclosed(RegexOp::atomic, greedy, false);
    }
    for (int i = 0; i < node.least; ++i) add(child);
    const auto fork = [&] { return emit({.op = RegexOp::fork}); };
    const auto aim = [&](int where, int inside, int outside) {
      at(where).to = node.greed == Greed::lazy ? outside : inside;
      at(where).other = node.greed == Greed::lazy ? inside : outside;
    };
    if (node.most == kNoLimit) {
      const int begin = fork();
      add(child);
      emit({.op = RegexOp::jump, .to = begin});
      return aim(begin, begin + 1, place());
    }
    std::vector<int> forks;
    for (int i = node.least; i < node.most; ++i) {
      forks.push_back(fork());
      add(child);
    }
    for (const int each : forks) aim(each, each + 1, place());
  }

  std::vector<Instruction> out_;
};

// Adds what a match of the node can begin with; whether something after the node can begin one too.
bool add_first(const RegexNode& node, const std::vector<CodeBits>& sets, CodeBits& out) {
  switch (node.kind) {
    case Kind::set:
      out.add(sets[static_cast<std::size_t>(node.set)]);
      return false;
    case Kind::sequence:
      for (const RegexNode& child : node.children)
        if (!add_first(child, sets, out)) return false;
      return true;
    case Kind::choice: {
      bool goes_on = false;
      for (const RegexNode& child : node.children) goes_on = add_first(child, sets, out) || goes_on;
      return goes_on;
    }
    case Kind::repeat:
      return add_first(node.children[0], sets, out) || node.least == 0;
    case Kind::atomic:
      return add_first(node.children[0], sets, out);
    default:
      return true;
  }
}

}  // namespace

RegexProgram compile_regex(const Regex& regex) {
  RegexProgram out{.instructions = RegexCompiler().compile(regex.root)};
  add_first(regex.root, regex.sets, out.first);
  return out;
}

}  // namespace tessera::tokenizer
