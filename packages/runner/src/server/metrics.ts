/** The runner's metrics, in Prometheus format. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Boxes } from '../box/boxes.ts'
import type { SpawnQueue } from '../exec/spawn-queue.ts'

export class RunnerMetrics {
  readonly #registry = new Registry()
  readonly #boxes = new Gauge({
    name: 'breakfall_runner_boxes',
    help: 'Boxes by state',
    labelNames: ['state'],
    registers: [this.#registry],
  })
  readonly #live = new Gauge({
    name: 'breakfall_runner_execs_live',
    help: 'Execs that are not over',
    registers: [this.#registry],
  })
  readonly #queued = new Gauge({
    name: 'breakfall_runner_spawns_queued',
    help: 'Execs waiting to be started',
    registers: [this.#registry],
  })
  readonly #memory = new Gauge({
    name: 'breakfall_runner_resident_bytes',
    help: 'Resident memory of the runner',
    registers: [this.#registry],
  })
  readonly #ended = new Counter({
    name: 'breakfall_runner_execs_total',
    help: 'Execs that are over, by cause',
    labelNames: ['cause'],
    registers: [this.#registry],
  })
  readonly #bytes = new Counter({
    name: 'breakfall_runner_output_bytes_total',
    help: 'Bytes that execs wrote',
    registers: [this.#registry],
  })
  readonly #faults = new Counter({
    name: 'breakfall_runner_faults_total',
    help: 'Refused calls, by category',
    labelNames: ['category'],
    registers: [this.#registry],
  })
  readonly #duration = new Histogram({
    name: 'breakfall_runner_exec_seconds',
    help: 'How long execs ran',
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
    registers: [this.#registry],
  })
  readonly #calls = new Histogram({
    name: 'breakfall_runner_call_seconds',
    help: 'How long calls took, by route and status',
    labelNames: ['route', 'status'],
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
    registers: [this.#registry],
  })

  get contentType(): string {
    return this.#registry.contentType
  }

  execEnded(cause: string, durationMs: number, bytes: number): void {
    this.#ended.inc({ cause })
    this.#duration.observe(durationMs / 1000)
    this.#bytes.inc(bytes)
  }

  answered(route: string, status: number, ms: number): void {
    this.#calls.observe({ route, status: String(status) }, ms / 1000)
  }

  refused(category: string): void {
    this.#faults.inc({ category })
  }

  async text(boxes: Boxes, queue: SpawnQueue): Promise<string> {
    this.#boxes.reset()
    for (const box of boxes.all()) this.#boxes.inc({ state: box.state })
    this.#live.set(boxes.liveExecs())
    this.#queued.set(queue.length)
    this.#memory.set(process.memoryUsage.rss())
    return this.#registry.metrics()
  }
}
