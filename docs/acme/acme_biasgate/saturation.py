"""Analysis `saturation`: how many scores are so close to 0 or 1 that they hardly rank."""

from biasgate.extend import Analysis, Findings


class Saturation(Analysis):
    within: float = 0.01

    def analyse(self, rows):
        extreme = (rows.y_score <= self.within) | (rows.y_score >= 1 - self.within)
        shares = {
            name: float(extreme[mask].mean()) if mask.any() else None
            for name, mask in rows.masks.items()
        }
        known = sorted((share, name) for name, share in shares.items() if share is not None)
        return Findings(
            result={"shares": shares},
            sentences=tuple(
                f"{share:.0%} of the scores of {name} are within {self.within:g} of 0 or 1."
                for share, name in known[-1:]
            ),
            table=[{"identity": name, "share": share} for name, share in shares.items()],
        )
