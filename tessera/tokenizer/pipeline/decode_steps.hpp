// How the texts of tokens become a text again, token by token.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tokenizer/pipeline/component.hpp"

namespace tessera::tokenizer {

// One decoder of a sequence, with what it still keeps back.
class DecodeStep {
 public:
  using Give = std::function<void(std::string text)>;
  virtual ~DecodeStep() = default;
  // Gives what is sure after this text, in as many parts as texts go on.
  virtual void push(std::string text, const Give& give) = 0;
  // Gives the rest.
  virtual void finish(const Give& give) = 0;
};

// The steps of a decoder, made anew for each text. Const, and shared by threads.
struct DecodePlan {
  std::vector<std::function<std::unique_ptr<DecodeStep>()>> steps;
  bool by_bytes = false;  // the only step is ByteLevel: tokens may come as the bytes they stand for
};

// ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence. Throws UserError naming any other.
DecodePlan make_decode_plan(const Component& component);
// Without a decoder: spaces between tokens.
DecodePlan spaced_plan();

// Steps under way.
class DecodeChain {
 public:
  explicit DecodeChain(const DecodePlan& plan);
  std::string push(std::string text);
  std::string finish();

 private:
  void push_from(std::size_t step, std::string text, std::string& out);
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  std::size_t taken_ = 0, made_ = 0;  // bytes
};

}  // namespace tessera::tokenizer
