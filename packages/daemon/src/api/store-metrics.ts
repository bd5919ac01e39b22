/** Metrics of the store that daemons share: this daemon's lease, the fleet as of its last renewal, and the connections. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Coordination } from '@breakfall/engine'

export function storeMetrics(
  { lease, connections }: Pick<Coordination, 'lease' | 'connections'>,
  registers: Registry[],
): void {
  const changes = new Counter({
    name: 'breakfall_lease_changes_total',
    help: 'Times that the lease was suspended, resumed or lost, or the daemon was asked to drain',
    labelNames: ['change'],
    registers,
  })
  for (const change of ['suspend', 'resume', 'lost', 'drain'] as const) changes.inc({ change }, 0)
  lease.on((change) => changes.inc({ change }))
  gauge('breakfall_lease_held', '1 while this daemon may work on its sessions', () => (lease.isHeld() ? 1 : 0))
  gauge(
    'breakfall_lease_remaining_seconds',
    'Until the lease runs out; +Inf if the store is not shared',
    () => lease.remainingMs() / 1000,
  )
  gauge('breakfall_fleet_daemons', 'Daemons that live, as of the last renewal', () => lease.fleet.live)
  gauge('breakfall_fleet_sessions_held', 'Sessions that these daemons own together', () => lease.fleet.held)
  new Gauge({
    name: 'breakfall_store_connections',
    help: "Connections to the store's database by state, and requests that wait for one",
    labelNames: ['state'],
    registers,
    collect() {
      const { size, free, waiting } = connections()
      this.set({ state: 'busy' }, size - free)
      this.set({ state: 'free' }, free)
      this.set({ state: 'waiting' }, waiting)
    },
  })

  function gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  }
}
