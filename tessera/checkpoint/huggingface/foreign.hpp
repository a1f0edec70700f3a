// Maps our parameters to their places in files that `transformers` wrote. Ours are unfused and [out, in];
// GPT-2's matrices are stored there as [in, out], with q, k and v as one:
//
//   ours, after transformer.h.<i>.        theirs
//   attn.{q,k,v}_proj.{weight,bias}       thirds of attn.c_attn.{weight,bias}
//   attn.out_proj.{weight,bias}           attn.c_proj.{weight,bias}
//   mlp.up_proj.{weight,bias}             mlp.c_fc.{weight,bias}
//   mlp.down_proj.{weight,bias}           mlp.c_proj.{weight,bias}
//
// Every other name is the same in both.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::checkpoint {

struct ForeignPlace {
  std::string tensor;
  bool transposed = false;           // a matrix stored as [in, out]
  std::int64_t part = 0, parts = 1;  // which of how many equal runs of outputs
  bool may_be_longer = false;        // only the first rows are needed: positions that a run does not reach
  bool operator==(const ForeignPlace&) const = default;
};

ForeignPlace foreign_place(const std::string& name);

// Names without which no parameter is lost: masks and frequencies that older files hold.
bool is_derived(const std::string& foreign_name);

// The published GPT-2 files leave the prefix "transformer." out.
std::string without_prefix(const std::string& name);

}  // namespace tessera::checkpoint
