/** Connection pools for model servers, one agent per connect limit. Idle sockets do not keep the process alive. */
import { Agent, type Dispatcher, interceptors } from 'undici'

const AGENTS_MAX = 16 // connect limits come from configuration, so in practice there are one or two
const agents = new Map<number, Agent>()

/** The agent with this connect limit. All other clocks belong to the attempt. */
export function agentFor(connectMs: number): Dispatcher {
  const known = agents.get(connectMs)
  if (known !== undefined) return known
  const oldest = agents.size >= AGENTS_MAX ? agents.keys().next().value : undefined
  if (oldest !== undefined) {
    // Closing waits for running requests, and nothing here has to wait for that.
    void agents.get(oldest)?.close()
    agents.delete(oldest)
  }
  const agent = new Agent({
    connect: { timeout: connectMs },
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false, // how a broken stream looks was measured on HTTP/1.1
    maxHeaderSize: 64 * 1024,
  })
  agents.set(connectMs, agent)
  return agent
}

const COMPRESSING_MAX = 64
const compressing = new Set<string>()

/** This server compresses answers although it is asked not to: what it sends from now on is decompressed. */
export function noteCompressing(origin: string): void {
  if (compressing.size >= COMPRESSING_MAX) compressing.clear()
  compressing.add(origin)
}

/** The way to this server. Only for servers that need it: undici calls its decompression experimental. */
export function dispatcherFor(origin: string, connectMs: number): Dispatcher {
  const agent = agentFor(connectMs)
  return compressing.has(origin) ? agent.compose(withoutInformational, interceptors.decompress()) : agent
}

/** undici's decompression takes an informational response (103 Early Hints) for the start of the answer, and then fails at the real one. */
const withoutInformational: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, {
    onRequestStart: (...given) => handler.onRequestStart?.(...given),
    onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
    onResponseStart: (...given) => {
      const [, status] = given
      if (status >= 200) handler.onResponseStart?.(...given)
    },
    onResponseData: (...given) => handler.onResponseData?.(...given),
    onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
    onResponseError: (...given) => handler.onResponseError?.(...given),
  })
