/** Gets sockets that were created in the network of a box. They are served outside of it: none of our code runs inside. */
import { spawn } from 'node:child_process'
import { Socket as DatagramSocket } from 'node:dgram'
import { Server } from 'node:net'
import { fileURLToPath } from 'node:url'
import { isObject } from '@breakfall/faults/internal'

export type BoxSockets = {
  readonly dns: DatagramSocket | undefined
  /** By port; one for each family of addresses. */
  readonly servers: readonly (readonly [port: number, server: Server])[]
}

const GIVE_MS = 15_000
const PROGRAM = fileURLToPath(new URL('give-sockets.mjs', import.meta.url))

/**
 * Every address of the internet is local in this network, so a connection to one reaches us and is refused by name, and nothing
 * leaves. Without `ip` such a connection also fails, but is not reported.
 */
const SCRIPT = `ip=$1; shift
if [ -n "$ip" ]; then
  "$ip" route add local 0.0.0.0/0 dev lo; "$ip" -6 route add local ::/0 dev lo
fi 2>/dev/null
exec "$@"`

/** `join`: the words that enter the network. Throws what went wrong. */
export function takeSockets(
  join: readonly string[],
  ip: string | null,
  wanted: readonly ('dns' | number)[],
): Promise<BoxSockets> {
  const words = ['/bin/sh', '-c', SCRIPT, 'sh', ip ?? '', process.execPath, PROGRAM, ...wanted.map(String)]
  const [program = '', ...args] = [...join, ...words]
  const child = spawn(program, args, {
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    timeout: GIVE_MS,
    killSignal: 'SIGKILL',
  })
  return new Promise((resolve, reject) => {
    const servers: [number, Server][] = []
    const problems: string[] = []
    let dns: DatagramSocket | undefined
    let said = ''
    child.stderr?.on('data', (bytes: Buffer) => (said += bytes.toString()))
    child.on('message', (message, handle) => {
      const { failed, port } = isObject(message) ? message : {}
      if (typeof failed === 'string') problems.push(failed)
      if (handle instanceof Server && typeof port === 'number') servers.push([port, handle])
      if (handle instanceof DatagramSocket) dns = handle
    })
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0 && problems.length === 0) {
        resolve({ dns, servers })
        return
      }
      dns?.close()
      for (const [, server] of servers) server.close()
      reject(new Error([...problems, said.trim().slice(0, 300)].filter(Boolean).join('; ') || `it ended with ${code}`))
    })
  })
}
