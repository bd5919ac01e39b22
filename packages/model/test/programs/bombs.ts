/** Reads many request bodies at once, each of which is a few kilobytes that become more than the limit. Prints the most memory it used. */
import { zstdCompressSync } from 'node:zlib'
import { MemoryBudget, receiveBody } from '../../src/internal.ts'

const BODIES = 40
const BYTES_MAX = 16 * 1024 * 1024

const bomb = zstdCompressSync(Buffer.alloc(2 * BYTES_MAX, ' '))
const before = process.resourceUsage().maxRSS
const headers = { 'content-encoding': 'zstd' }
const budget = new MemoryBudget(16 * BYTES_MAX)
async function isRefused(): Promise<boolean> {
  const memory = budget.open()
  try {
    await receiveBody([bomb], { headers, bytesMax: BYTES_MAX, memory, look: 'fields' })
    return false
  } catch {
    return true
  } finally {
    memory.close()
  }
}
const refused = await Promise.all(Array.from({ length: BODIES }, isRefused))
const usedMib = (process.resourceUsage().maxRSS - before) / 1024
process.stdout.write(JSON.stringify({ refused: refused.filter(Boolean).length, usedMib }))
