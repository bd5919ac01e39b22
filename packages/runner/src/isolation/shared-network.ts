/**
 * A network namespace that belongs to a box: one small process holds it, and sandboxes join it by `nsenter`. A server that one
 * exec starts then answers another exec of the same box, and no one else.
 */
import { execFile, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { sendSignal } from '@breakfall/supervisor/platform'
import { bwrapOptions, type BoxUser } from './bwrap-args.ts'
import type { HostLayout } from './host-layout.ts'

export type NetworkTools = { readonly bwrap: string; readonly nsenter: string }

/**
 * Starts a holder, which lives as long as `file` exists, and without a file as long as this process. Resolves with its pid, or
 * throws what bubblewrap said.
 */
export function startHolder({ bwrap }: NetworkTools, file?: string): Promise<number> {
  const asRoot = process.getuid?.() === 0 ? [] : ['--unshare-user', '--uid', '0', '--gid', '0']
  const args = [
    ...asRoot,
    '--unshare-net',
    '--dev-bind',
    '/',
    '/',
    '--json-status-fd',
    '3',
    '--',
    '/bin/sh',
    '-c',
    ...(file === undefined ? [HOLD_WHILE_READING, 'holder'] : [HOLD_WHILE_THERE, 'holder', file]),
  ]
  const child = spawn(bwrap, args, {
    stdio: [file === undefined ? 'pipe' : 'ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
  })
  return new Promise((resolve, reject) => {
    let [told, said, status] = ['', '', '']
    child.once('error', reject)
    child.stderr?.on('data', (bytes: Buffer) => (told += bytes.toString()))
    child.once('exit', () => reject(new Error(told.trim().slice(0, 300) || 'the holder of the network ended')))
    const isUp = (): void => {
      const [, pid] = /"child-pid": (\d+)\s*[,}]/.exec(status) ?? [] // it arrives in pieces
      if (pid === undefined || !said.includes('up')) return // its namespaces are complete once its shell speaks
      child.removeAllListeners('exit')
      for (const stream of [child.stdout, child.stderr, child.stdio[3]]) stream?.removeAllListeners('data')
      for (const stream of [child.stdout, child.stderr, child.stdio[3]]) if (stream instanceof Socket) stream.destroy()
      child.unref()
      if (child.stdin instanceof Socket) child.stdin.unref()
      resolve(Number(pid))
    }
    child.stdout?.on('data', (bytes: Buffer) => {
      said += bytes.toString()
      isUp()
    })
    child.stdio[3]?.on('data', (bytes: Buffer) => {
      status += bytes.toString()
      isUp()
    })
  })
}

/** The words before bubblewrap that put its sandbox into the holder's network. */
export function joining({ nsenter }: Pick<NetworkTools, 'nsenter'>, pid: number): readonly string[] {
  const user = process.getuid?.() === 0 ? [] : ['-U', '--preserve-credentials']
  return [nsenter, '-t', String(pid), ...user, '-n', '--']
}

/** True if a sandbox really can join a holder here. */
export async function probeSharedNetwork(tools: NetworkTools, layout: HostLayout, user: BoxUser): Promise<boolean> {
  try {
    const pid = await startHolder(tools)
    try {
      return await works(tools, pid, layout, user)
    } finally {
      sendSignal(pid, 'SIGKILL')
    }
  } catch {
    return false // user namespaces are restricted, or nsenter has other options here
  }
}

// ---- details ----

const PROBE_MS = 10_000
const HOLD_WHILE_THERE = 'echo up; exec >/dev/null; while [ -e "$1" ]; do sleep 10; done'
const HOLD_WHILE_READING = 'echo up; exec >/dev/null; read -r end' // the kernel closes the pipe of a killed runner

function works(tools: NetworkTools, pid: number, layout: HostLayout, user: BoxUser): Promise<boolean> {
  const mounts = layout.folders.map((path) => ({ at: path, host: path, mode: 'ro' as const }))
  const view = { mounts, links: layout.links, masks: [], isHost: false }
  const plan = { view, user, network: 'joined' as const, cwd: '/', environment: { PATH: '/usr/bin:/bin' } }
  const [program, ...args] = [
    ...joining(tools, pid),
    tools.bwrap,
    ...bwrapOptions(plan),
    '--',
    '/bin/sh',
    '-c',
    'cat /proc/net/dev',
  ]
  return new Promise((resolve) => {
    execFile(program, args, { timeout: PROBE_MS, env: {} }, (error, stdout) =>
      resolve(error === null && /^\s*lo:/m.test(stdout)),
    )
  })
}
