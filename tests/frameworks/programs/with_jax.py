"""JAX on the CPU, whose collectives use a Gloo inside its library: `with_jax.py RANK PORT`."""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp

STEPS = 40


def main():
    rank, port = int(sys.argv[1]), sys.argv[2]
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    mean = jax.pmap(lambda value: jax.lax.pmean(value, "rank"), "rank")
    weights = jnp.zeros(1000)
    losses = []
    for step in range(STEPS):
        if rank == 1:
            time.sleep(float(os.environ.get("SLOW_MS", "0")) / 1000)
        target = jnp.sin(jnp.arange(1000.0) + rank + step)
        gradient = mean((weights - target)[None])[0]
        weights = weights - 0.1 * gradient
        losses.append(float(jnp.mean((weights - target) ** 2)))
    with open(os.path.join(os.environ["TRUTH_DIR"], f"{rank}.json"), "w") as file:
        json.dump(losses, file)


main()
