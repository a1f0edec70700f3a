// Makes LibTorch's first calls while no other thread computes.
#pragma once

namespace tessera::tensor {

// Note [First calls]
// LibTorch gives cos, sin, exp, tanh, erf, log, sqrt and their like over to MKL's vector functions, which
// look up the kind of CPU at their first call. That lookup is not safe for threads: mkl_vml_serv_cpu_detect
// stores the CPU's number in a static, translates it by a table and stores it again, without a lock. A second
// thread that makes its first call between the two stores takes a kernel for another CPU, of another
// accuracy: rotary tables of one rank were off by 6.8e-9 in fp64 and 1.5e-4 in fp32, exp in fp32 gave NaN.
// One call by one thread is enough for the process; all functions that we use are called, since others may
// keep such statics of their own.

// Calls every vector function that is used, in fp32 and fp64, at the first call in a process; threads that
// come meanwhile wait until it is done. Each Communicator does it, so that no rank computes before.
void warm_up();

}  // namespace tessera::tensor
