// What charts show, from samples of a session: {at, slot, feedbacks, ..., counted, mean_loss, arms or x}.

const MOST_INTERVALS = 90;

export const meanOf = (row) => row.mean_loss ?? row.mean_reward ?? null;

export function meanSoFar(row) {
  // The mean with open decisions as the default: of an arm as the service says it, of a session from its counts.
  if (row.so_far) return row.so_far.mean;
  if (!hasDefault(row)) return meanOf(row);
  const all = row.slot - row.voided;
  const counted = all - row.outstanding;
  return all ? (counted * (meanOf(row) ?? 0) + row.outstanding * (row.expiry.default_loss ?? row.expiry.default_reward)) / all : null;
}

export function asSample(view) {
  // A view as one more sample: what is new since the last sample of the history.
  const { slot, feedbacks, outstanding, expired, removed, voided, total_delay, effective_arms, feature_weight, x } = view;
  const counts = { slot, feedbacks, outstanding, expired, removed, voided, total_delay, effective_arms, feature_weight };
  const counted = feedbacks + (hasDefault(view) ? expired + removed : 0);
  const sample = { at: new Date().toISOString(), ...counts, counted, mean_loss: meanOf(view) };
  if (x) return { ...sample, x: x.slice(0, 10) };
  const indexes = view.learner.arm_indexes;
  const arms = view.probabilities.map((probability, place) => ({ arm: indexes ? indexes[place] : place, probability }));
  arms.sort((a, b) => b.probability - a.probability);
  return { ...sample, arms: arms.slice(0, 10).filter((each) => each.probability > 0) };
}

export function within(samples, seconds) {
  // The samples of the last seconds, and the one before them, from which the first differences count.
  if (!seconds || !samples.length) return samples;
  const from = Date.now() - 1000 * seconds;
  const first = samples.findIndex((sample) => Date.parse(sample.at) >= from);
  if (first < 0) return samples.slice(-1);
  return samples.slice(Math.max(0, first - 1));
}

export const times = (samples) => samples.map((sample) => Date.parse(sample.at));

export function shares(samples) {
  // The arms with the largest shares over all these samples, the latest sample counting as much as all before.
  const weights = new Map();
  samples.forEach((sample, place) => {
    for (const { arm, probability } of sample.arms || []) {
      const weight = place === samples.length - 1 ? samples.length : 1;
      weights.set(arm, (weights.get(arm) || 0) + weight * probability);
    }
  });
  const top = [...weights].sort((a, b) => b[1] - a[1]).slice(0, 10).map(([arm]) => arm);
  const found = samples.map((sample) => new Map((sample.arms || []).map((each) => [each.arm, each.probability])));
  const arms = top.map((arm) => ({ arm, shares: found.map((each) => each.get(arm) ?? null) }));
  // Samples of the history have six digits of each arm's probability, which leave a rest where there is none.
  const rest = samples.map((_, place) => Math.max(0, 1 - arms.reduce((sum, each) => sum + (each.shares[place] ?? 0), 0)));
  return { arms, rest: rest.map((share) => (share < 1e-5 ? 0 : share)) };
}

function intervals(samples, isNew) {
  // Pairs of samples between which something happened; neighbours are joined where there are many.
  const step = Math.max(1, Math.ceil(samples.length / MOST_INTERVALS));
  const found = [];
  let before = samples[0];
  samples.forEach((sample, place) => {
    const isLast = place === samples.length - 1;
    if (place > 0 && (place % step === 0 || isLast) && isNew(before, sample)) {
      found.push([before, sample]);
      before = sample;
    }
  });
  return found;
}

export const hasDefault = ({ expiry }) => Boolean(expiry) && (expiry.default_loss ?? expiry.default_reward ?? null) !== null;

export function firstWindow(samples, view) {
  // When the window of the first act ends at the earliest, in milliseconds; 0 where no window counts in the mean.
  return hasDefault(view) ? Date.parse(samples.find((sample) => sample.slot > 0)?.at) + 1000 * view.expiry.after_seconds : 0;
}

export function means(samples, range, firstEnd) {
  // The mean loss of what was counted between two samples, with a band of 95 %.
  //
  // Until the first window ends, at `firstEnd` or when a decision expired, only decisions with an event are counted.
  // Between `range` of a session over arms the spread of losses is at most that of losses at its two ends (which is
  // exact for clicks), so the band is never too narrow. Over points there is no range, and no band.
  return intervals(samples, (a, b) => b.counted > a.counted && (b.expired > 0 || Date.parse(b.at) >= firstEnd)).map(([a, b]) => {
    const n = b.counted - a.counted;
    const mean = (b.counted * meanOf(b) - a.counted * (meanOf(a) ?? 0)) / n;
    const point = { at: Date.parse(b.at), n, mean, low: null, high: null };
    if (!range) return point;
    const [from, to] = range;
    const share = Math.min(1, Math.max(0, (mean - from) / (to - from)));
    const centre = (share + 1.92 / n) / (1 + 3.84 / n);
    const half = (1.96 / (1 + 3.84 / n)) * Math.sqrt((share * (1 - share)) / n + 0.96 / n ** 2);
    const ends = [centre - half, centre + half].map((each) => from + each * (to - from));
    return { ...point, mean: from + share * (to - from), low: Math.min(...ends), high: Math.max(...ends) };
  });
}

export function outcomes(samples) {
  // What became of decisions, per minute, between two samples.
  const names = ["feedbacks", "expired", "removed", "voided"];
  return intervals(samples, (a, b) => Date.parse(b.at) > Date.parse(a.at)).map(([a, b]) => {
    const [from, to] = [Date.parse(a.at), Date.parse(b.at)];
    const perMinute = Object.fromEntries(names.map((name) => [name, ((b[name] - a[name]) * 60_000) / (to - from)]));
    return { from, to, acts: ((b.slot - a.slot) * 60_000) / (to - from), ...perMinute };
  });
}

export function delays(samples) {
  // The mean delay between two samples, in slots: decisions outstanding when a slot closed, on average.
  return intervals(samples, (a, b) => b.slot > a.slot).map(([a, b]) => ({
    at: Date.parse(b.at), delay: (b.total_delay - a.total_delay) / (b.slot - a.slot),
  }));
}
