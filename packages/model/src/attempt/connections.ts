/** The pools of connections to model servers. One agent per connect limit; idle sockets do not keep the process alive. */
import { Agent, type Dispatcher } from 'undici'

const AGENTS_MAX = 16 // connect limits come from configuration, so there are one or two in practice
const agents = new Map<number, Agent>()

/** The agent whose connections must stand within the limit. All other clocks are the attempt's own. */
export function agentFor(connectMs: number): Dispatcher {
  const known = agents.get(connectMs)
  if (known !== undefined) return known
  const oldest = agents.size >= AGENTS_MAX ? agents.keys().next().value : undefined
  if (oldest !== undefined) {
    // Closing waits for requests under way; nobody has to wait for that.
    void agents.get(oldest)?.close()
    agents.delete(oldest)
  }
  const agent = new Agent({
    connect: { timeout: connectMs },
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false, // what a broken stream looks like was measured on HTTP/1.1
    maxHeaderSize: 64 * 1024,
  })
  agents.set(connectMs, agent)
  return agent
}
