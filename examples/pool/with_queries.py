"""Attack the same models with the points alone, and with their shifts as queries.

epsilometer audit queries.toml
python with_queries.py
"""

import numpy as np

import epsilometer as em


def main(store="queries.db"):
    """Print one row per attack, with and without queries."""
    with em.stores.SqliteStore(store, read_only=True) as opened:
        sizes = opened.sizes()
        whole = opened.pool_losses(sizes, sizes.variants[0])
    alone = em.PoolLosses(
        loss=whole.loss[:, :, 0],
        member=whole.member,
        names=whole.names,
        references=whole.references,
        fair_coins=whole.fair_coins,
    )
    teachers = whole.models // 2
    print(f"{'attack':<14}{'queries':>8}{'AUC':>8}{'proven':>8}")
    for attack in (
        em.attacks.Lira(),
        em.attacks.LiraOffline(),
        em.attacks.Rmia(),
        em.attacks.RmiaOffline(),
    ):
        for losses in (alone, whole):
            points = em.attacks.most_leaking(losses, models=range(teachers), count=40)
            scores = em.attacks.held_out_scores(losses, attack, teachers=teachers, points=points)
            proven = em.prove(scores, delta=1e-5).at_least
            area = auc(*em.attacks.cross_fitted_scores(losses, attack).pooled())
            down = np.floor(100 * proven) / 100  # a lower bound is never rounded up
            print(f"{attack.name:<14}{losses.queries:>8}{area:>8.3f}{down:>8.2f}")


def auc(without, with_point):
    """AUC over all models and points."""
    others = np.sort(without)
    sides = [np.searchsorted(others, with_point, side=side).mean() for side in ("left", "right")]
    return np.mean(sides) / len(others)


if __name__ == "__main__":
    main()
