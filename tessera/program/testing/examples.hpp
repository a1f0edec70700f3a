// Small tables for tests: a chain of embedding, blocks and head with round numbers of bytes.
#pragma once

#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/program/passes/generate.hpp"

namespace tessera::program {

struct Example {
  std::uint32_t num_blocks = 2;
  std::int32_t num_micro = 2;
  std::int64_t dp = 2;
  bool tied = false;
  bool resident = true;                             // false: computed with in bf16, so there are gathers
  bool sharded = false;                             // over dp
  std::int64_t replicas = 1;                        // of what is sharded
  std::vector<std::uint32_t> rank_of_segment = {};  // position on axis pp; empty: there is none
};

// Segments embedding, blocks, head, one bucket each (tied: the head reads the embedding's), then a bucket of
// norms that all but the embedding read, one for each position on pp. Value i lies between segments i and i
// + 1. Each value holds 1000 bytes, each tape 100, weight work 10; each bucket has 64 elements.
Tables example_tables(const Example& example);

// The program of an order whose stages are dealt the example's segments, `counts` of them each.
Program example_pipeline(Example example, const Order& order, const std::vector<std::uint32_t>& counts,
                         const GenerateOptions& options = {});

}  // namespace tessera::program
