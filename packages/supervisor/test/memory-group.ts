// A private memory control group for a test, if the machine permits one: cgroup v2 or v1.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

export type MemoryGroup = Disposable & {
  /** A process joins by writing its pid here. */
  readonly procs: string
}

/** The group, or the reason why there is none. */
export function memoryGroup(bytesMax: number): MemoryGroup | string {
  if (process.platform !== 'linux') return 'needs Linux'
  if (process.getuid?.() !== 0) return 'needs root'
  const own = (controller: string): string => {
    const lines = readFileSync('/proc/self/cgroup', 'latin1').split('\n')
    return lines.find((line) => line.split(':')[1]?.split(',').includes(controller))?.split(':')[2] ?? ''
  }
  const name = `breakfall-test-${process.pid}`
  const v1 = path.join('/sys/fs/cgroup/memory', own('memory'))
  const v2 = path.join('/sys/fs/cgroup', own(''))
  const isV1 = existsSync(path.join(v1, 'memory.limit_in_bytes'))
  const folder = path.join(isV1 ? v1 : v2, name)
  try {
    mkdirSync(folder)
  } catch (error) {
    return `no control group can be made here (${String(error)})`
  }
  try {
    writeFileSync(path.join(folder, isV1 ? 'memory.limit_in_bytes' : 'memory.max'), `${bytesMax}`)
  } catch (error) {
    rmdirSync(folder)
    return `the memory of a control group cannot be limited here (${String(error)})`
  }
  return { procs: path.join(folder, 'cgroup.procs'), [Symbol.dispose]: () => rmdirSync(folder) }
}
