/** What a keeper's status file says. Pure: text in, facts out. */
import { parseObject } from '@breakfall/faults/internal'

export type KeeperStatus = {
  readonly keeper: number | undefined
  /** The name of the keeper and of its control group. */
  readonly name: string | undefined
  /** When the job was sent, by the machine's monotonic clock. */
  readonly atMs: number | undefined
  readonly holder: number | undefined
  /** The process that became the command, or the sandbox around it. */
  readonly pid: number | undefined
  /** Init of the sandbox's PID namespace, and id of the inner process group. */
  readonly sandboxPid: number | undefined
  /** Only set if the sandbox really started the command. */
  readonly sandboxExit: number | undefined
  readonly exit: number | undefined
  /** The sandbox had the wrong workspace, so the command was not started. */
  readonly refused: boolean
  /** Of an earlier version, which built sandboxes ahead: this one was never given its command. */
  readonly unused: boolean
  /** The shell's own messages: that a signal ended the command, or that something failed. */
  readonly messages: readonly string[]
}

export function parseStatus(text: string): KeeperStatus {
  const messages: string[] = []
  const found: { -readonly [K in keyof KeeperStatus]: KeeperStatus[K] } = {
    keeper: undefined,
    name: undefined,
    atMs: undefined,
    holder: undefined,
    pid: undefined,
    sandboxPid: undefined,
    sandboxExit: undefined,
    exit: undefined,
    refused: false,
    unused: false,
    messages,
  }
  const whole = text.slice(0, text.lastIndexOf('\n') + 1) // a line without its end is not complete yet
  for (const line of whole.replaceAll('\0', '').split('\n')) {
    if (line === '') continue
    const keeper = /^keeper (\d+) (\S+) (\d+)$/.exec(line)
    const begun = /^begun (\d+)$/.exec(line)
    const [, fact, value] = /^(holder|pid|exit) (\d+)$/.exec(line) ?? []
    if (keeper !== null) Object.assign(found, { keeper: Number(keeper[1]), name: keeper[2], atMs: Number(keeper[3]) })
    else if (fact === 'holder' || fact === 'pid' || fact === 'exit') found[fact] = Number(value)
    else if (line === 'refused') found.refused = true
    else if (line === 'warm') found.unused = true
    else if (begun !== null) Object.assign(found, { unused: false, atMs: Number(begun[1]) })
    else if (line === 'ready') continue
    else if (!readSandboxLine(line, found)) messages.push(line)
  }
  return found
}

function readSandboxLine(
  line: string,
  found: { sandboxPid: number | undefined; sandboxExit: number | undefined },
): boolean {
  if (!line.startsWith('{')) return false
  try {
    const json = parseObject(line)
    if (typeof json['child-pid'] === 'number') found.sandboxPid = json['child-pid']
    if (typeof json['exit-code'] === 'number') found.sandboxExit = json['exit-code']
    return true
  } catch {
    return false // not from bubblewrap
  }
}
