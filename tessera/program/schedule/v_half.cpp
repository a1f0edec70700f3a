#include "tessera/program/schedule/repeated_block.hpp"

namespace tessera::program {

Order v_half(const Pipeline& pipeline) {
  // Twice as long on the ways down as on the ways up; the waits keep the halves of a rank apart.
  return repeated_block(pipeline, {.forward_down = 2,
                                   .input_down = 2,
                                   .before_inputs = pipeline.num_ranks % 2 == 0 ? 3 : 0,
                                   .before_last_inputs = 1});
}

}  // namespace tessera::program
